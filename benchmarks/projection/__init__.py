"""Projected against published throughput."""
