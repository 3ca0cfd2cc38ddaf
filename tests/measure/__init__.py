"""Tests of measurements."""
