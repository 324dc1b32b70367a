"""What is known of a case before it runs: the bits that each launch must report."""
