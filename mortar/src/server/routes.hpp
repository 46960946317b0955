// The routes of the server.
#pragma once
#include "http/http.hpp"
#include "server/service.hpp"

namespace mortar::server {

void add_routes(HttpServer& http, Service& service);
/// Paths that need no API key and are answered while the server drains.
std::vector<std::string> open_paths();

/// The OpenAPI description of the routes, JSON.
std::string_view openapi_json();
/// The page for people, HTML.
std::string_view page_html();

}  // namespace mortar::server
