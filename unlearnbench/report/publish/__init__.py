"""The leaderboard, submissions to it, and the check that computes records again."""
