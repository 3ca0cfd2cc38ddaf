"""Round trips through the frameworks themselves; each file is skipped where its packages are not.

`make test-frameworks` installs all of them and runs this folder.
"""
