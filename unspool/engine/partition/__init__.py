"""What of a step runs once, for many steps at once, and step by step; what backward keeps."""
