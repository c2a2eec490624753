"""What a script calls: run a grid, use one method, make a task of your own data."""
