// Folders by system calls. Not std::filesystem: other libraries of a process may export a copy of it that is older than
// the compiler's (PyTorch's do), which then serves the calls of all libraries, with objects of another layout.
#pragma once
#include <string>
#include <vector>

namespace tessera {

/// Like mkdir -p. New folders on the way get the mode 0755, the last one `mode`. What goes wrong shows when the folder
/// is used.
void make_folders(const std::string& folder, unsigned mode = 0755) noexcept;
/// The names of everything in a folder, without "." and "..", in no particular order; none if it cannot be read.
std::vector<std::string> names_in(const std::string& folder);
/// Like rm -rf; links are removed, not followed. What goes wrong is ignored.
void remove_folder(const std::string& folder) noexcept;
bool path_exists(const std::string& path) noexcept;

}  // namespace tessera
