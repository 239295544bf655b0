"""Devices that train by themselves: boards over ssh, phones, and the one-file agent for old Pythons."""
