// Loads a model that is not there, with the engine's library, or with the server's.
#include <cstdio>

#include <mortar/mortar.hpp>
#ifdef WITH_SERVER
#include <mortar/server.hpp>
#endif

int main() {
  try {
#ifdef WITH_SERVER
    mortar::Server server("/nowhere", []() -> mortar::Engine { return mortar::Engine(mortar::load("/nowhere"), {}); },
                          {.port = 0});
    (void)server.run();
#else
    (void)mortar::load("/nowhere");
#endif
  } catch (const mortar::Error& error) { std::printf("consumer: %s\n", error.what()); }
}
