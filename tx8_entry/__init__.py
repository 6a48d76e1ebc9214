"""The entry of tx8: the commands and ``import tx8`` start here.

The first step checks that tx8 can run here at all. So a wrong system, or a folder that hides one of the
packages, gives one line instead of a traceback.
"""
