"""Features of cases: what a campaign counts to know what it has covered."""
