"""The command line: `main` lists the verbs, and each file has those of one subject."""
