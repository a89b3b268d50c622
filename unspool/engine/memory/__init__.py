"""What a loop keeps for its backward pass: policies, where residuals wait, and memory that is quick to touch."""
