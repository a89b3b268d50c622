"""The suite. A package, so that a module has one name, whoever imports it."""
