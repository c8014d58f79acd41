"""What operators and other persons state: whom they deny access, maintenance, why they decided."""
