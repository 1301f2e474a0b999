"""Stands for a program that nobody has read."""
print("harmless, this time")
