"""Delivers what is owed for a failure: a webhook to the merchant, a teardown to the platform."""
