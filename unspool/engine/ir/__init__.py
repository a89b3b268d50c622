"""The intermediate representation: straight programs of aten operations, which emitters take."""
