"""Commands out of articles: read as a shell reads them (`words`), each judged (`judge`), one of llama-server made right
(`server`), one of another program of llama.cpp checked (`tools`), everything else answered (`elsewhere`).
"""
