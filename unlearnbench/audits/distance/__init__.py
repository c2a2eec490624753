"""How far is an unlearned model from a retrained one, and which measures of that can be trusted?"""
