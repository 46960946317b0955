// Files from a package index, with what a fresh system has.
#pragma once
#include <string>

namespace tessera {

/// Downloads `url` into the file `path` with the first of curl, wget, python3 and apt's apt-helper that is there.
/// Throws IoError: none is there, or it failed; the message has its last line and what to do.
void download(const std::string& url, const std::string& path);

/// The address of the file `name` in the page of a package (PEP 503: links, one for each file), which came from
/// `page_url`; empty if the page has no such file. Relative links are resolved.
std::string address_in(const std::string& page, const std::string& page_url, const std::string& name);

/// The SHA-256 sum of a file in hexadecimal, by `sha256sum`. Throws IoError.
std::string sha256_of(const std::string& path);

}  // namespace tessera
