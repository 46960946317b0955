// Runs a program that downloads, and reads pages of a package index.
#include "download.hpp"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "child.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera {
namespace {

constexpr const char* kPythonDownload =
    "import shutil, sys, urllib.request\n"
    "try:\n"
    "    with urllib.request.urlopen(sys.argv[1], timeout=60) as source, open(sys.argv[2], 'wb') as target:\n"
    "        shutil.copyfileobj(source, target)\n"
    "except Exception as error:\n"
    "    sys.exit(f'{type(error).__name__}: {error}')\n";

/// Command lines that download, in the order in which they are tried.
std::vector<std::vector<std::string>> downloaders(const std::string& url, const std::string& path) {
  return {{"curl", "--fail", "--location", "--silent", "--show-error", "--retry", "3", "--connect-timeout", "20", "-o",
           path, url},
          {"wget", "--no-verbose", "--tries=3", "--timeout=60", "-O", path, url},
          {"python3", "-c", kPythonDownload, url, path},
          {"/usr/lib/apt/apt-helper", "download-file", url, path}};
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// The end of what a program said, in one line.
std::string said(const std::string& output) {
  constexpr std::size_t kShown = 300;
  const std::size_t end = output.find_last_not_of(" \r\n") + 1;
  return replaced(output.substr(end - std::min(end, kShown), std::min(end, kShown)), "\n", "; ");
}

/// The address that a link of a page means.
std::string resolved(const std::string& link, const std::string& page_url) {
  if (link.find("://") != std::string::npos) return link;
  const std::size_t host = page_url.find("://"), path = page_url.find('/', host == std::string::npos ? 0 : host + 3);
  if (link.starts_with("//")) return page_url.substr(0, host + 1) + link;
  if (link.starts_with("/")) return page_url.substr(0, path) + link;
  std::string folder = page_url.substr(0, page_url.rfind('/'));
  std::string_view rest = link;
  while (rest.starts_with("../") && folder.size() > path) {
    rest.remove_prefix(3);
    folder.resize(folder.rfind('/'));
  }
  return concat(folder, "/", std::string(rest));
}

}  // namespace

void download(const std::string& url, const std::string& path) {
  for (const auto& words : downloaders(url, path)) {
    const Finished done = run_child(words);
    if (done.code == 127) continue;  // it is not there
    if (done.code == 0 && access(path.c_str(), R_OK) == 0) return;
    throw IoError(
        concat("cannot download ", url, ": ", words[0], ": ", said(done.output),
               "\n  Is there a network? Behind a proxy set https_proxy; for an index of your own PIP_INDEX_URL or "
               "--index. Without a network: tessera get-tileiras --bundle FILE on a machine that has one."));
  }
  throw IoError(
      "nothing that downloads was found: looked for curl, wget, python3 and /usr/lib/apt/apt-helper\n  apt-get install "
      "curl ca-certificates");
}

std::string address_in(const std::string& page, const std::string& page_url, const std::string& name) {
  constexpr std::string_view kMark = "href=\"";
  for (std::size_t at = 0; (at = page.find(kMark, at)) != std::string::npos;) {
    at += kMark.size();
    const std::string link = replaced(page.substr(at, page.find('"', at) - at), "&amp;", "&");
    const std::string address = link.substr(0, link.find('#'));
    const std::string path = replaced(address.substr(0, address.find('?')), "%2B", "+");
    if (path == name || path.ends_with("/" + name)) return resolved(address, page_url);
  }
  return "";
}

std::string sha256_of(const std::string& path) {
  const Finished done = run_child({"sha256sum", "--", path});
  constexpr std::size_t kDigits = 64;
  if (done.code != 0 || done.output.size() < kDigits)
    throw IoError(concat("sha256sum cannot read ", path, ": ", last_line(done.output)));
  return done.output.substr(0, kDigits);
}

}  // namespace tessera
