"""The grammar: how states, launches, damage and hardened inputs are drawn."""
