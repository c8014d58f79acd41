"""Support access: grants, the calls under them, and the gate that looks at each."""
