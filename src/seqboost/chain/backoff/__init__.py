"""Chains of variable order (``contexts="seen"``): seen contexts are states, all others back off to shorter ones."""
