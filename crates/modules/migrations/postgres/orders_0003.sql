-- PostgreSQL has no `INSERT OR REPLACE`, and orders refuse TRUNCATE already: nothing is missing here.

select;
