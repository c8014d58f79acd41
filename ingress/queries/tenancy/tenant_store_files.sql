-- Which migrations of stores a tenant's own database has. A few rows.
select file from tenancy.store_file
