"""The entry of tx8: the commands start here, and ``import tx8`` begins here as well.

The first step checks that tx8 can run here at all. So a wrong system, or a folder that hides one of the
packages, is one line and not a traceback from deep inside.
"""
