"""Small loaders with one known defect each, and healthy twins that merely look suspicious.

One module per check, named like it. Every `bad*()` trips exactly that check, every `good*()` trips none.
"""
