"""``python -m plb`` is the command ``plb``."""

from plb_command import main

main()
