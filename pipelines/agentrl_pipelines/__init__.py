"""In which order the stages run: the command line and the local runner."""
