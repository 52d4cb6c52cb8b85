"""The command line's groups, one module each. Heavy imports wait until a command runs."""
