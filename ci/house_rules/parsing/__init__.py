"""Just enough of each language's grammar to check the house rules."""
