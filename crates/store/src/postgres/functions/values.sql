-- Times, spans and lists. No twin: SQLite keeps times as microseconds, and lists never leave Rust.

-- STABLE, though it never changes: its parts are marked so, and only then is it inlined.
CREATE FUNCTION rupor_micros(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE AS $$ SELECT (extract(epoch FROM at) * 1000000)::bigint $$;

CREATE FUNCTION rupor_span(micros bigint) RETURNS interval
LANGUAGE sql IMMUTABLE AS $$ SELECT micros * interval '1 microsecond' $$;

-- Microseconds between two requests of a rate a second; no rate is no limit.
CREATE FUNCTION rupor_interval_us(rate double precision) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN rate > 0 THEN ceil(1000000.0 / rate)::bigint ELSE 0 END $$;

-- A time in JSON: microseconds since the epoch as a number, or anything PostgreSQL reads as a timestamp.
CREATE FUNCTION rupor_time(value jsonb) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN value IS NULL OR value = 'null' THEN NULL
        WHEN jsonb_typeof(value) = 'number' AND value::text::numeric >= 9223372036854775807 THEN 'infinity'
        WHEN jsonb_typeof(value) = 'number' THEN 'epoch'::timestamptz + rupor_span(value::text::numeric::bigint)
        ELSE (value #>> '{}')::timestamptz END
$$;

-- For each of `everybody`, in order: is it one of `chosen`? A hash join by force: the other functions forbid it.
CREATE FUNCTION rupor_among(everybody bigint[], chosen bigint[]) RETURNS boolean[]
LANGUAGE plpgsql STABLE SET jit = off SET enable_hashjoin = on SET enable_nestloop = off AS $$
BEGIN
    RETURN (SELECT array_agg(s.id IS NOT NULL ORDER BY e.ord)
              FROM unnest(everybody) WITH ORDINALITY AS e (id, ord)
              LEFT JOIN (SELECT DISTINCT u.id FROM unnest(chosen) AS u (id)) AS s ON s.id = e.id);
END $$;
