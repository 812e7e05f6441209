"""All that makes a schema, so that two can be compared."""

from __future__ import annotations

import asyncpg

CATALOGUE = """
SELECT 'column' AS kind, c.relname || '.' || a.attname AS name,
       concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attnum, a.attnotnull, a.attidentity,
                 pg_get_expr(d.adbin, d.adrelid), c.relkind, c.reloptions) AS definition
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = 'stafette'::regnamespace
UNION ALL SELECT 'constraint', conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'stafette'::regnamespace
UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'stafette'
UNION ALL SELECT 'view', viewname, definition FROM pg_views WHERE schemaname = 'stafette'
UNION ALL SELECT 'function', oid::regprocedure::text, pg_get_functiondef(oid) || coalesce(proacl::text, '')
FROM pg_proc WHERE pronamespace = 'stafette'::regnamespace
ORDER BY 1, 2, 3
"""


async def catalogue(url: str) -> list[tuple[str, ...]]:
    connection = await asyncpg.connect(url)
    rows = [tuple(row) for row in await connection.fetch(CATALOGUE)]
    await connection.close()
    return rows
