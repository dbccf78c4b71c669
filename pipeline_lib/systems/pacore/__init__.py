"""PaCoRe: parallel paths, compacted to messages and synthesized over rounds."""
