#include "runtime/SitePackages.h"

#include "runtime/Environment.h"

#include <algorithm>
#include <dlfcn.h>
#include <filesystem>
#include <glob.h>

using namespace attune;

std::vector<std::string> attune::matchingPaths(const std::string &pattern) {
  std::vector<std::string> paths;
  glob_t found = {};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  std::reverse(paths.begin(), paths.end());
  return paths;
}

/// The parent folder of the Python package that contains this library: ".../site-packages" where the library is
/// ".../site-packages/attune/libattune.so.0".
static std::string ownFolder() {
  Dl_info info = {};
  if (!dladdr(reinterpret_cast<void *>(&sitePackages), &info) || !info.dli_fname)
    return "";
  return std::filesystem::path(info.dli_fname).parent_path().parent_path().string();
}

std::vector<std::string> attune::sitePackages() {
  std::vector<std::string> patterns;
  if (const std::string own = ownFolder(); own.ends_with("-packages")) // also Debian's name, dist-packages
    patterns.push_back(own);
  if (const std::string environment = valueOf(EnvironmentVariable::VirtualEnv); !environment.empty())
    patterns.push_back(environment + "/lib/python3*/site-packages");
  if (const std::string home = valueOf(EnvironmentVariable::Home); !home.empty())
    patterns.push_back(home + "/.local/lib/python3*/site-packages");
  for (const char *system : {"/usr/local/lib/python3*/dist-packages", "/usr/local/lib/python3*/site-packages",
                             "/usr/lib/python3*/site-packages", "/usr/lib/python3/dist-packages"})
    patterns.push_back(system);
  std::vector<std::string> folders;
  for (const std::string &pattern : patterns)
    for (std::string &folder : matchingPaths(pattern))
      folders.push_back(std::move(folder));
  return folders;
}
