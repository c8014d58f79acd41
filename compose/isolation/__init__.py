"""The isolation monitor: tenants of its own try to reach each other, again and again, over routes and stores."""
