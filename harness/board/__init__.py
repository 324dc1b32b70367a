"""The board of planted bugs: how many cases it takes to find each, from several seeds."""
