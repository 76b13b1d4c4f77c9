"""The laboratory bench that the notebooks of this course call.

Importing this package is cheap on purpose: it loads the standard library
only. Each module below loads what it needs when it is called.
"""

__version__ = "0.1.0"
