"""Where tx8 is entered: the commands start here, and ``import tx8`` begins here as well.

It is checked first that tx8 can run here at all. So a wrong system, or a folder that
hides one of the packages, is one line and no traceback from deep inside.
"""
