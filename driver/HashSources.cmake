# cmake -DROOT=... -DLIST=FILE -DEXTRA=... -DOUTPUT=... -P HashSources.cmake
# Writes one C++ string literal: a hash of the files named in LIST (one a line) and of EXTRA. The file keeps its
# time when the hash stays.
file(STRINGS ${LIST} files)
set(all "${EXTRA}\n")
foreach(name ${files})
  file(SHA256 ${ROOT}/${name} hash)
  string(APPEND all "${name} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "\"${hash}\"\n")
