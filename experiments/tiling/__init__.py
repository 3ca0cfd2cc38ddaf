"""Study: arenas of TFLite Micro with tiling in rows, against the ways that others take."""
