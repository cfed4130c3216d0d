"""`netflix`: the 100 million ratings of the Netflix Prize.

Netflix withdrew the data in 2010, so there is no download: users pass their own copy, as an archive or unpacked. The
checksum is that of `nf_prize_dataset.tar.gz` as several projects publish it.
"""

from __future__ import annotations

from tastespace.data.formats.netflix import RATING_FILES, read_netflix
from tastespace.data.sources.source import Archive, Source

NETFLIX = Source(
    name="netflix",
    description="films, 1 to 5 stars, 1999 to 2005; bring your own copy",
    n_ratings=100_480_507,
    n_users=480_189,
    n_items=17_770,
    home="https://archive.org/details/nf_prize_dataset.tar",
    terms=(
        "For research. Do not claim endorsement by Netflix, name the source in publications, do not redistribute, and "
        "do not use it commercially, without permission of Netflix; do not try to find out who the users are."
    ),
    read=read_netflix,  # with dates, titles and years
    archive=Archive(
        url=None,
        ratings=RATING_FILES,
        others=("movie_titles.*",),
        checksum="md5:a8f23d2d76461211c6b4c0ca6df2547d",
        n_bytes=697_552_028,
        hint=(
            "Netflix withdrew it in 2010. Copies: nf_prize_dataset.tar.gz in the Internet Archive and at Academic "
            "Torrents, netflix-prize-data at Kaggle"
        ),
    ),
)
