"""Programs that say `import tensorflow`: `tensorflow` is `unspool.tf1` inside them."""
