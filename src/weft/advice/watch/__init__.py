"""What cables of a running fabric carry, whose traffic it is, and what would relieve them."""
