"""Where factors come from: one class each."""
