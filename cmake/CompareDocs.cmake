# cmake -DGENERATED=... -DCOMMITTED=... -P CompareDocs.cmake: fails when a committed page is not what TableGen gives.
execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${GENERATED} ${COMMITTED} RESULT_VARIABLE different)
if(different)
  message(FATAL_ERROR "${COMMITTED} is stale; run: ninja -C build update-docs")
endif()
