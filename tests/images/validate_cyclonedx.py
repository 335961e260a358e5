#!/usr/bin/env python3
"""Whether files are valid CycloneDX 1.6, by the schema that the project's own library brings.

  validate_cyclonedx.py FILE...
"""
import pathlib
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

wrong = 0
for name in sys.argv[1:]:
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(pathlib.Path(name).read_text())
    if error:
        print(f"{name}: {error}")
        wrong = 1
sys.exit(wrong)
