// The page for people, embedded when the library is built.
#include "server/routes.hpp"

namespace mortar::server {

std::string_view page_html() { return "<!doctype html><title>Mortar</title><p>Mortar"; }
std::string_view openapi_json() { return "{}"; }

}  // namespace mortar::server
