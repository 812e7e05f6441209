"""The broker: many clients, few database connections, every answer durable."""
