vcl 4.1;
# In front of the media origin: what everybody may see is kept for seconds under its versioned path, nothing else is.
# Written into the home with the address of the origin and the key of purges: the file there is private.

import std;
import xkey;

backend origin {
    .host = "@host@";
    .port = "@port@";
    .connect_timeout = 1s;
    # a fetch ends by then, whatever the origin does: a purge that comes so much later meets everything that was under way
    .first_byte_timeout = @fetch_s@s;
    .between_bytes_timeout = @fetch_s@s;
    .max_connections = 512;
}

sub vcl_recv {
    if (req.url == "/cache-alive") {
        return (synth(200));
    }
    if (req.method == "PURGE") {
        if (req.http.x-purge-key != "@key@") {
            return (synth(404));
        }
        set req.http.x-purged = xkey.purge(req.http.xkey-purge);
        return (synth(200));
    }
    unset req.http.cookie;
    unset req.http.authorization;
    # uploads; and a signed URL, whose copy is for who holds it alone
    if ((req.method != "GET" && req.method != "HEAD") || req.url ~ "\?") {
        return (pass);
    }
    return (hash);  # those who ask meanwhile wait for the one fetch
}

sub vcl_backend_fetch {
    set bereq.http.x-began = std.time2real(now, 0.0);
}

sub vcl_backend_response {
    # the cache itself stood still meanwhile: what it was told may be hidden since then, and purges were for nothing
    if (now - std.real2time(std.real(bereq.http.x-began, 0.0), now) > @fetch_s@s) {
        return (error(503));
    }
    set beresp.grace = 0s;  # what is over may be hidden
    set beresp.keep = 0s;
    if (beresp.status == 404 && !bereq.uncacheable) {
        # a negative entry, though the origin says no-store to all who are behind us; a version that is over never comes back
        set beresp.ttl = 2s;
        return (deliver);
    } elsif (beresp.status == 200 && beresp.http.cache-control ~ "public") {
        set beresp.ttl = beresp.ttl * std.random(0.8, 1.0);  # never longer than the origin says, and not all at once
    } else {
        set beresp.uncacheable = true;
        set beresp.ttl = 0s;
    }
}

sub vcl_deliver {
    unset resp.http.xkey;
    unset resp.http.via;
    unset resp.http.x-varnish;
}

sub vcl_synth {
    if (req.http.x-purged) {
        set resp.http.x-purged = req.http.x-purged;
    }
    set resp.body = "";
    return (deliver);
}
