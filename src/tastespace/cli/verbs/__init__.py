"""The verbs of the command line, each in the file of its name; groups of verbs are in one file."""
