"""The block in other frameworks: import the module that is named after the framework.

None of them is imported by the rest of the library.
"""
